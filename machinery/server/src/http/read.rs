//! Reading one object or many.

use machinery_auth::UserInfo;

use super::{exchange::Exchange, list_options, reply::Reply, write_options::WriteOptions};
use crate::{ApiError, resource::Resource};

/// GET of one.
pub(crate) async fn get(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
    name: &str,
) -> Result<Reply, ApiError> {
    let renderer = exchange.renderer(resource)?;
    let version = list_options::get_options(&exchange.params)?;
    let context = exchange.enter(user, &WriteOptions::default());
    let item = resource.get(&context, name, version).await?;
    Ok(Reply::ok(renderer.object(&item)?))
}

/// GET of many.
pub(crate) async fn list(
    exchange: &Exchange<'_>,
    user: UserInfo,
    resource: &dyn Resource,
) -> Result<Reply, ApiError> {
    let renderer = exchange.renderer(resource)?;
    let mut query = list_options::list_options(&exchange.params, resource)?;
    query.skips_unreadable = exchange.skips_unreadable();
    let context = exchange.enter(user, &WriteOptions::default());
    let listed = resource.list(&context, query).await?;
    Ok(Reply::ok(renderer.list(&listed)?))
}
